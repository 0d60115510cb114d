"""The statements of Megatron that the weeks ask about; their line numbers come from the installed file."""

from autograder.traces.trace import Place

_LAYERS, _SCHEDULES = "tensor_parallel/layers.py", "pipeline_parallel/schedules.py"
_MESSAGES = "pipeline_parallel/p2p_communication.py"
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

_WARM_UP = Place(_SCHEDULES, _FLAT, "num_warmup_microbatches = (")
_RECEIVE = Place(_SCHEDULES, _FLAT, "input_tensor = p2p_communicator.recv_forward(")
_SEND = Place(_SCHEDULES, _FLAT, "p2p_communicator.send_forward(output_tensor, is_pp_last_stage")
_FIRST_INPUT = Place(_SCHEDULES, _FLAT, "if num_microbatches_remaining > 0:")
_FIRST_GRADIENT = Place(_SCHEDULES, _FLAT, "output_tensor_grad = p2p_communicator.recv_backward(")
_ON_LAST_STAGE = Place(_MESSAGES, "P2PCommunicator.send_forward_recv_backward", "if is_last_stage:")
# The places that week 7 prints, in order, each with the number of lines after it. Receive and send: the warm-up's.
ONE_F_ONE_B_SOURCE = (
    (_WARM_UP, 2),
    (_RECEIVE, 0),
    (_SEND, 0),
    (_FIRST_INPUT, 0),
    (STEADY, 32),
    (_FIRST_GRADIENT, 8),
    (_ON_LAST_STAGE, 0),
)

FORWARD_CHUNK = Place(_SCHEDULES, f"{_INTERLEAVED}.forward_step_helper", "output_tensor, num_tokens = forward_step(")
BACKWARD_CHUNK = Place(_SCHEDULES, f"{_INTERLEAVED}.backward_step_helper", "input_tensor_grad = backward_step(")
INTERLEAVED = (FORWARD_CHUNK, BACKWARD_CHUNK)

_COUNT = "num_warmup_microbatches = (pipeline_parallel_size - pipeline_parallel_rank - 1) * 2"
_WARM_UP_CHUNKS = Place(_SCHEDULES, "get_pp_rank_microbatches", _COUNT)
_TABLE = Place(_SCHEDULES, "get_schedule_table", "schedule_table = []")
_CHUNK = Place(_SCHEDULES, f"{_INTERLEAVED}.get_model_chunk_id", "model_chunk_id = model_chunk_id_table[")
INTERLEAVED_SOURCE = ((_WARM_UP_CHUNKS, 14), (_TABLE, 24), (_CHUNK, 3))  # what week 8 prints

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
