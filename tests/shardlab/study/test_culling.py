"""The students' Jupyter settings end kernels of closed pages, and no kernel that computes or whose page is open."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from shardlab.home.memory import IDLE_SECONDS
from shardlab.ranks.warm import IDLE_LIMIT
from traitlets.config import Config

ROOT = Path(__file__).parents[3]
SETTINGS = ROOT / "course" / ".jupyter" / "jupyter_server_config.d" / "student.json"


@pytest.fixture
def manager(monkeypatch):
    """A kernel manager with the students' settings, which notes which kernels it ends."""
    manager = AsyncMappingKernelManager(config=Config(json.loads(SETTINGS.read_text(encoding="utf-8"))))
    manager.ended = []

    async def end(self, kernel_id):
        self.ended.append(kernel_id)

    monkeypatch.setattr(AsyncMappingKernelManager, "shutdown_kernel", end)
    return manager


def cull(manager, *, state, minutes, connections):
    last = datetime.now(UTC) - timedelta(minutes=minutes)
    spec = SimpleNamespace(metadata={})
    manager._kernels["k"] = SimpleNamespace(
        execution_state=state, last_activity=last, kernel_name="python3", kernel_spec=spec
    )
    manager._kernel_connections["k"] = connections
    asyncio.run(manager.cull_kernel_if_idle("k"))
    return manager.ended == ["k"]


def test_a_kernel_of_a_closed_page_ends_after_an_hour(manager):
    assert cull(manager, state="idle", minutes=61, connections=0)


@pytest.mark.parametrize(
    "alive",
    [
        {"state": "busy", "minutes": 10_000, "connections": 0},
        {"state": "idle", "minutes": 10_000, "connections": 1},
        {"state": "idle", "minutes": 50, "connections": 0},
    ],
)
def test_no_kernel_ends_that_computes_or_is_open_or_was_used(manager, alive):
    assert not cull(manager, **alive)


def test_the_docs_name_the_limits():
    settings = json.loads(SETTINGS.read_text(encoding="utf-8"))["MappingKernelManager"]
    text = " ".join((ROOT / "docs" / "self-study.md").read_text(encoding="utf-8").split())
    assert settings["cull_idle_timeout"] == 60 * 60 and "closed page | an hour without activity" in text
    assert f"{IDLE_LIMIT / 60:.0f} minutes without a call" in text and f"idle for {IDLE_SECONDS // 60} minutes" in text
