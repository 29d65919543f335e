"""Pure torch stand-in for the CPU operators of `sgl_kernel`; for tests only.

The published package holds GPU kernels. A CPU engine without AMX needs the names below and the
two attention operators under `torch.ops.sgl_kernel`. `convert_weight_packed` must stay absent:
its presence is what turns SGLang's AMX weight packing on.
"""

from .attention import register_attention
from .cache import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    build_draft_decode_metadata_cpu,
    copy_all_layer_kv_cache_cpu,
)
from .speculative import (
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
    reconstruct_indices_from_tree_mask,
    rotate_input_ids_cpu,
    verify_tree_greedy_cpu,
)
from .tree import build_tree_kernel_efficient_cpu

__version__ = "0.4.10"
__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "reconstruct_indices_from_tree_mask",
    "rotate_input_ids_cpu",
    "verify_tree_greedy_cpu",
]

register_attention()
