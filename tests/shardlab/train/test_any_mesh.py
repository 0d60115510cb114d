"""The contents of a checkpoint. Each one that does not fit is refused on every rank before anything is changed."""

import errno
import json
import shutil
import threading
from pathlib import Path

import pytest
import shardlab
import torch
from shardlab.hybrid import chunks_to_load, chunks_to_save
from shardlab.hybrid.pieces import SavedShard
from shardlab.train import Damaged, latest, load
from shardlab.train.checkpoint_contents import CONTENTS, read_contents, sha256, write_contents
from shardlab.train.checkpoint_save import Saver
from shardlab.train.loop import Training

from tests.shardlab.train.small import EXPERTS, recipe, trained


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint of dp 2, pp 2 with ZeRO-1 after two steps. Tests copy it before they change it."""
    folder = tmp_path_factory.mktemp("saved")
    trained(recipe({"dp": 2, "pp": 2}, step={"zero": 1}, checkpoints={"folder": str(folder)}, run={"until": 2}), 4)
    return folder / "step-00000002"


@pytest.fixture
def checkpoint(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / saved.name))


def test_it_names_tensors_by_their_numbers_in_the_whole_model(checkpoint):
    contents = read_contents(checkpoint)
    blocks = {int(name.split(".")[2]) for name in contents["tensors"] if name.startswith("weight.blocks.")}
    assert blocks == {0, 1, 2, 3}
    assert contents["step"] == 2 and contents["sequences"] == 16 and contents["lr"] == pytest.approx(0.01)
    assert contents["tensors"]["exp_avg.blocks.3.up.weight"] == [[64, 16], "torch.float32"]
    assert contents["data"]["seed"] == 0 and contents["mesh"] == "dp 2 pp 2 cp 1 tp 1 ep 1"
    assert {*contents["files"]} == {path.name for path in checkpoint.iterdir()} - {CONTENTS}


def test_torchs_own_tools_read_it(checkpoint, tmp_path):
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    dcp_to_torch_save(checkpoint, tmp_path / "whole.pt")
    whole = torch.load(tmp_path / "whole.pt")
    assert whole["weight.blocks.2.up.weight"].shape == (64, 16) and whole["step.token.weight"] == 2


# ---- refusals --------------------------------------------------------------------------------------------------------


def refusals(checkpoints, one, with_facts=True):
    """Every rank's error for each checkpoint, and whether it changed anything."""
    training = Training(one, quiet=True)
    chunks_to_load(training.trainer)
    before = [chunk.tensor.clone() for chunk in chunks_to_load(training.trainer)]
    told = []
    for checkpoint in checkpoints:
        with pytest.raises(ValueError) as caught:
            load(training.trainer, checkpoint, facts=training.facts if with_facts else None)
        after = [chunk.tensor for chunk in chunks_to_load(training.trainer)]
        assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
        told.append((str(caught.value), type(caught.value).__name__))
    return told


def refused_alike(checkpoints, one=None, **options):
    told = shardlab.run(refusals, checkpoints, one or recipe({"dp": 2}), *options.values(), ranks=2, timeout=60)
    assert told[0] == told[1]
    return told[0]


def a_file(checkpoint):
    return next(checkpoint.glob("__1_*.distcp"))


def cut_short(checkpoint):
    path = a_file(checkpoint)
    path.write_bytes(path.read_bytes()[:-7])


def flip_a_byte(checkpoint):
    numbers = bytearray(a_file(checkpoint).read_bytes())
    numbers[len(numbers) // 2] ^= 1
    a_file(checkpoint).write_bytes(numbers)


def flip_a_byte_of_the_list(checkpoint):
    path = checkpoint / CONTENTS
    path.write_text(path.read_text().replace('"step": 2', '"step": 3', 1))


def flip_a_byte_of_the_metadata(checkpoint):
    numbers = bytearray((checkpoint / ".metadata").read_bytes())
    numbers[100] ^= 1
    (checkpoint / ".metadata").write_bytes(numbers)


DAMAGE = {
    "is incomplete: __1_0.distcp has": cut_short,
    "__1_0.distcp has 0 bytes instead of": lambda checkpoint: a_file(checkpoint).unlink(),
    "the checksum of __1_0.distcp has changed since it was written": flip_a_byte,
    "the checksum of .metadata has changed": flip_a_byte_of_the_metadata,
    "contents.json does not match its own checksum": flip_a_byte_of_the_list,
    "its contents.json cannot be read (FileNotFoundError)": lambda checkpoint: (checkpoint / CONTENTS).unlink(),
    "its contents.json cannot be read (JSONDecodeError)": lambda checkpoint: (checkpoint / CONTENTS).write_text("{"),
}


def test_a_damaged_checkpoint_is_refused_and_named(saved, tmp_path):
    copies = [Path(shutil.copytree(saved, tmp_path / str(number))) for number in range(len(DAMAGE))]
    for copy, damage in zip(copies, DAMAGE.values(), strict=True):
        damage(copy)
    for copy, sentence, (told, kind) in zip(copies, DAMAGE, refused_alike(copies), strict=True):
        assert sentence in told and str(copy) in told and kind == "Damaged"
        assert told.endswith("Load an earlier checkpoint, or none")


OTHERS = {
    "model was": recipe({"dp": 2}, model={"layers": 8}),
    "experts was": recipe({"dp": 2}, experts=EXPERTS),
    "optimizer was 'adamw', here it is 'sgd'": recipe({"dp": 2}, optimizer={"name": "sgd"}),
    "data was": recipe({"dp": 2}, run={"seed": 1}),
}


@pytest.mark.parametrize("sentence", OTHERS)
def test_a_checkpoint_of_another_training_is_refused(checkpoint, sentence):
    [(told, kind)] = refused_alike([checkpoint], OTHERS[sentence])
    assert sentence in told and "Nothing was loaded" in told and kind == "ValueError"


@pytest.mark.parametrize(
    ("one", "sentence"),
    [
        (OTHERS["model was"], "it has blocks 0 to 3, this model 0 to 7: either that model had fewer layers, or each"),
        (OTHERS["optimizer was 'adamw', here it is 'sgd'"], "it stores exp_avg, exp_avg_sq, step, weight of each"),
        (
            recipe({"dp": 2}, model={"gated": True}),
            "blocks.0.up.bias is [64] of float32 in the checkpoint and [128] of float32 in this model",
        ),
        (recipe({"dp": 2}, model={"tied": False}), "exp_avg.head.weight is only in this model"),
        (recipe({"dp": 2}, step={"dtype": "float64"}), "of float32 in the checkpoint and"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_another_model_is_known_by_its_tensors(checkpoint, one, sentence):
    [(told, _)] = refused_alike([checkpoint], one, with_facts=False)
    assert sentence in told and "Nothing was loaded" in told


# ---- names with stage-local indices: a silent upstream bug ----------------------------------------------------------


def local_names(chunks, layers_of_stage):
    """Chunks as named by a program that counts blocks from 0 in every pipeline stage."""

    def renamed(key):
        parts = key.split(".")
        if parts[0] == "blocks":
            parts[1] = str(int(parts[1]) % layers_of_stage)
        return ".".join(parts)

    return [SavedShard(renamed(one.key), *one[1:]) for one in chunks]


def saved_with_local_names(folder):
    training = Training(recipe({"pp": 2}), quiet=True)
    training.one_step()

    class Local(Saver):
        def _chunks(self):
            return local_names(super()._chunks(), 2)

    saver = Local(training.trainer, folder)
    with pytest.raises(ValueError, match="one of them would be lost") as caught:
        saver.begin(1, training.facts)
    return str(caught.value)


def test_blocks_that_are_numbered_in_each_stage_are_not_saved(tmp_path):
    told = shardlab.run(saved_with_local_names, tmp_path, ranks=2, timeout=60)
    assert len(set(told)) == 1 and told[0].startswith("rank 0 and rank 1 both write ")
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_with_such_names_is_refused(checkpoint):
    """As left by the upstream bug: both stages had blocks 0 and 1, and only one stage's values remain."""
    contents = read_contents(checkpoint)
    kept = {
        name: one for name, one in contents["tensors"].items() if ".blocks.2." not in name and ".blocks.3." not in name
    }
    write_contents(checkpoint, contents | {"tensors": kept})
    [(told, _)] = refused_alike([checkpoint])
    assert "it has blocks 0 to 1, this model 0 to 3" in told and "numbered its blocks from 0" in told


# ---- the latest complete checkpoint, and how many are kept -----------------------------------------------------------


def test_latest_skips_what_is_not_whole_and_says_so(tmp_path, saved):
    for step in (2, 4, 6):
        shutil.copytree(saved, tmp_path / f"step-{step:08}")
    (tmp_path / "step-00000006" / CONTENTS).unlink()
    cut_short(tmp_path / "step-00000004")
    (tmp_path / ".step-00000008.part").mkdir()
    said = []
    assert latest(tmp_path, said.append) == tmp_path / "step-00000002"
    assert len(said) == 2 and "step-00000006 is not a complete checkpoint" in said[0] and "is incomplete" in said[1]
    assert latest(tmp_path / "nowhere") is None


def resumed(one):
    said = []
    training = Training(one, quiet=True)
    training.logs.say = said.append
    return training.resume(), said


def test_a_run_goes_on_from_the_latest_that_is_whole(tmp_path, saved):
    for step in (2, 4):
        shutil.copytree(saved, tmp_path / f"step-{step:08}")
    flip_a_byte(tmp_path / "step-00000004")
    one = recipe({"dp": 2}, checkpoints={"folder": str(tmp_path)})
    for done, said in shardlab.run(resumed, one, ranks=2, timeout=60):
        assert done == 2
        assert any(
            "skipped" in line and "step-00000004" in line and "has changed since it was written" in line
            for line in said
        )
        assert said[-1] == "resumed after step 2, saved on dp 2 pp 2 cp 1 tp 1 ep 1"


def test_the_last_ones_are_kept(tmp_path):
    told = trained(recipe(checkpoints={"folder": str(tmp_path), "every": 1, "keep": 2}), 1)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["step-00000003", "step-00000004"]
    assert len(told[0].checkpoints) == 4 and all(stall > 0 for stall in told[0].stalls)


# ---- while training continues ----------------------------------------------------------------------------------------


def beside_steps(one):
    """Run steps while a thread holds a save open. The save must contain the state from before these steps."""
    training = Training(one, quiet=True)
    training.one_step()
    held = threading.Event()
    plain = training.saver._write
    training.saver._write = lambda *arguments: (held.wait(30), plain(*arguments))
    before = [chunk.tensor.clone() for chunk in chunks_to_save(training.trainer)]
    training.save()
    for _ in range(2):
        training.one_step()
    done_meanwhile, ended = training.done, len(training.saves)
    held.set()
    training.saver.finish()
    later = Training(one, quiet=True)
    later.resume()
    after = [chunk.tensor for chunk in chunks_to_save(later.trainer)]
    return done_meanwhile, ended, later.done, all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_steps_go_on_while_a_snapshot_is_written(tmp_path):
    one = recipe({"dp": 2}, step={"zero": 1}, checkpoints={"folder": str(tmp_path)})
    assert shardlab.run(beside_steps, one, ranks=2, timeout=60, observe=False) == [(3, 0, 1, True)] * 2


def on_a_full_disk(one, failing_rank):
    training = Training(one, quiet=True)
    said = []
    training.logs.say = said.append
    training.one_step()
    plain = training.saver._write

    def write(under, plan, writing):
        from torch.distributed.checkpoint import filesystem

        def full(stream):
            raise OSError(errno.ENOSPC, "No space left on device", str(under.target))

        fsync = filesystem.os.fsync
        if training.rank == failing_rank and under.step == 1:
            filesystem.os.fsync = full
        plain(under, plan, writing)
        filesystem.os.fsync = fsync

    training.saver._write = write
    for _ in range(2):
        training.save()
        training.saver.finish()
        training.one_step()
    return [(one.step, one.problem) for one in training.saves], said


@pytest.mark.parametrize("rank", [0, 1])
def test_a_full_disk_costs_the_checkpoint_and_not_the_training(tmp_path, rank):
    one = recipe({"dp": 2}, checkpoints={"folder": str(tmp_path)})
    for saves, said in shardlab.run(on_a_full_disk, one, rank, ranks=2, timeout=60, observe=False):
        (first, problem), (second, none) = saves
        assert (first, second, none) == (1, 2, "")
        assert problem.startswith(f"rank {rank}: No space left on device")
        assert any("checkpoint after step 1 not written" in line and "Training continues" in line for line in said)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]


def test_a_step_that_is_saved_again_replaces_the_first(tmp_path, saved):
    folder = tmp_path / "step-00000004"
    shutil.copytree(saved, folder)
    cut_short(folder)
    trained(recipe(checkpoints={"folder": str(tmp_path)}), 1)
    assert latest(tmp_path) == folder and [path.name for path in tmp_path.iterdir()] == ["step-00000004"]


def test_checksums_are_of_the_files(checkpoint):
    for name, (size, checksum) in read_contents(checkpoint)["files"].items():
        assert (checkpoint / name).stat().st_size == size and sha256(checkpoint / name) == checksum
    assert json.loads((checkpoint / CONTENTS).read_text())["format"] == 1
    assert issubclass(Damaged, ValueError)
