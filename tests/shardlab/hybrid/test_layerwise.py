"""A model built layer by layer is the same on every mesh, and no rank builds what it does not keep."""

from dataclasses import replace

import pytest
import shardlab
import torch
from shardlab.hybrid import LayerByLayer, MeshTrainer, Settings, chunks_to_save
from shardlab.mesh import Mesh
from shardlab.mesh.process_groups import create_process_groups

from tests.shardlab.hybrid.five_axes import DENSE, EXPERTS, put_together, sgd


def begun(mesh, config, moe):
    """What this rank would save before the first step, and the layers it has built."""
    torch.set_num_threads(1)
    whole, built = LayerByLayer(config, moe, seed=3), []
    block = whole.block
    whole.block = lambda layer: (built.append(layer), block(layer))[1]
    trainer = MeshTrainer(whole, create_process_groups(mesh), sgd, Settings(num_microbatches=2))
    return [(c.key, c.kind, c.global_shape, c.offsets, c.tensor.clone()) for c in chunks_to_save(trainer)], built


@pytest.mark.parametrize("moe", [None, EXPERTS], ids=["dense", "experts"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "apart"])
def test_every_part_is_the_one_of_the_whole_model(moe, tied):
    config = replace(DENSE, tied=tied)
    by_rank = shardlab.run(begun, Mesh(pp=2, tp=2), config, moe, ranks=4, timeout=60)
    assert [built for _, built in by_rank] == [[0, 1], [0, 1], [2, 3], [2, 3]]
    due = {name: one.detach() for name, one in LayerByLayer(config, moe, seed=3).whole().named_parameters()}
    found = put_together([chunks for chunks, _ in by_rank], ["weight"])
    assert {name for name, _ in found} == due.keys()
    assert all(torch.equal(found[name, "weight"], one) for name, one in due.items())
