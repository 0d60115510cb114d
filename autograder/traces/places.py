"""The statements of Megatron that the weeks ask about; their line numbers come from the installed file."""

from autograder.traces.trace import Place

_LAYERS, _SCHEDULES = "tensor_parallel/layers.py", "pipeline_parallel/schedules.py"
_LINEAR = "LinearWithGradAccumulationAndAsyncCommunication"
_FLAT = "forward_backward_pipelining_without_interleaving"
_INTERLEAVED = "forward_backward_pipelining_with_interleaving"

MATMUL = Place(_LAYERS, f"{_LINEAR}.forward", "output = torch.matmul(total_input, weight.t())")
GRAD_INPUT = Place(_LAYERS, f"{_LINEAR}.backward", "grad_input = grad_output.matmul(weight)")
LINEAR = (MATMUL, GRAD_INPUT)

STEADY = Place(_SCHEDULES, _FLAT, "output_tensor_grad = p2p_communicator.send_forward_recv_backward(")
BACKWARD = Place(_SCHEDULES, _FLAT, "input_tensor_grad = backward_step(")
COOLDOWN = Place(_SCHEDULES, _FLAT, "input_tensor_grad = backward_step(", nth=2)
ONE_F_ONE_B = (STEADY, BACKWARD, COOLDOWN)

FORWARD_CHUNK = Place(_SCHEDULES, f"{_INTERLEAVED}.forward_step_helper", "output_tensor, num_tokens = forward_step(")
BACKWARD_CHUNK = Place(_SCHEDULES, f"{_INTERLEAVED}.backward_step_helper", "input_tensor_grad = backward_step(")
INTERLEAVED = (FORWARD_CHUNK, BACKWARD_CHUNK)

_OWN = "DistributedOptimizer._build_model_and_main_param_groups"
OWN_PART = Place("optimizer/distrib_optimizer.py", _OWN, "model_fp32_params_this_group.append(model_param)")
NEXT_STEP = Place(
    "distributed/distributed_data_parallel.py",
    "DistributedDataParallel.zero_grad_buffer",
    "for buffer in self.buffers + self.expert_parallel_buffers:",
)
OPTIMIZER = (OWN_PART, NEXT_STEP)

TOKEN_DISPATCH = Place(
    "transformer/moe/token_dispatcher.py",
    "MoEAlltoAllTokenDispatcher.token_dispatch",
    "global_input_tokens = all_to_all(",
)
ALL_TO_ALL = Place("tensor_parallel/mappings.py", "_AllToAll.forward", "torch.distributed.all_to_all_single(")
DISPATCH = (ALL_TO_ALL,)
