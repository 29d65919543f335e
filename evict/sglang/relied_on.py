"""What the plugin calls or overrides in SGLang 0.5.23: names and parameters, by module.

A test compares each with the installed package. When SGLang moves, this list says what to read
again; `evict.sglang.compat` is the one file to change.
"""

from __future__ import annotations

RELIED_ON: dict[str, dict[str, str]] = {
    "sglang.srt.speculative.eagle_worker_v2": {
        "EAGLEWorkerV2.__init__": "(self, server_args, gpu_id, nccl_port, target_worker)",
        "EAGLEWorkerV2.forward_batch_generation": (
            "(self, batch, on_publish=None, grammar_barrier=None, pp_proxy_tensors=None)"
        ),
        "EAGLEWorkerV2.verify": "(self, batch, pp_proxy_tensors=None, grammar_barrier=None)",
        "EAGLEWorkerV2.init_cuda_graphs": "(self)",
        "EagleDraftWorker.__init__": "(self, server_args, gpu_id, nccl_port, target_worker)",
        "EagleDraftWorker.draft": "(self, batch, *, with_topology=False)",
        "EagleDraftWorker.draft_forward": "(self, forward_batch)",
        "EagleDraftWorker._draft_extend_for_decode": (
            "(self, batch, batch_result, *, kv_loc_plan=None)"
        ),
        "EagleDraftWorker._capture_cuda_graphs": "(self)",
        "build_eagle_verify_input": (
            "(batch, draft_input, parent_list, top_scores_index, draft_tokens, "
            "draft_probs, *, target_worker, topk, num_steps, num_draft_tokens, "
            "tree_mask_mode, device)"
        ),
        "organize_draft_results": "(score_list, token_list, parents_list, num_draft_token)",
        "select_top_k_tokens": "(i, topk_p, topk_index, hidden_states, scores, topk)",
    },
    "sglang.srt.speculative.base_spec_worker": {
        "BaseSpecWorker.alloc_memory_pool": (
            "(self, memory_pool_config=None, req_to_token_pool=None, "
            "token_to_kv_pool_allocator=None)"
        ),
        "BaseSpecWorker.clear_cache_pool": "(self)",
    },
    "sglang.srt.speculative.eagle_utils": {
        "per_step_draft_out_cache_loc": "(out_cache_loc, batch_size, topk, num_steps)",
    },
    "sglang.srt.speculative.eagle_draft_cuda_graph_runner": {
        "EAGLEDraftCudaGraphRunner.__init__": (
            "(self, eagle_worker, *, draft_attn_backend=None, speculative_num_steps=None)"
        ),
        "EAGLEDraftCudaGraphRunner.capture_one_shape": (
            "(self, size, forward, stream_idx=None, variant_label=None, attention_variant=None)"
        ),
        "EAGLEDraftCudaGraphRunner.execute": "(self, forward_batch)",
        "EAGLEDraftCudaGraphRunner._replay_graph": "(self, shape_key, forward_batch)",
        "EAGLEDraftCudaGraphRunner._make_graph_key": (
            "(self, bs, stream_idx=None, variant_label=None)"
        ),
    },
    "sglang.kernels.ops.speculative.cache_locs": {
        "assign_extend_cache_locs_uniform_func": (
            "(req_pool_indices, req_to_token, start_offset, batch_size, draft_token_num, "
            "device, *, full_v2p=None, swa_v2p=None, full_out=None, swa_out=None, "
            "page_size=1, positions_out=None, anchor_src=None, anchor_out=None)"
        ),
    },
    "sglang.srt.model_executor.cuda_graph_config": {
        "check_cuda_graph_backend": "(phase, backend)",
    },
    "sglang.srt.model_executor.forward_context": {
        "forward_context": "(ctx, *, forward_batch=None)",
    },
    "sglang.srt.model_executor.runner": {
        "DecodeCudaGraphRunner.__init__": (
            "(self, model_runner, *, attn_backend=None, speculative_num_steps=None, "
            "speculative_num_draft_tokens=None, record_nolora_graph=False)"
        ),
        "DecodeCudaGraphRunner.can_run_graph": "(self, forward_batch)",
    },
    "sglang.srt.model_executor.runner_backend.base_cuda_graph_backend": {
        "BaseCudaGraphBackend.capture_one": (
            "(self, shape_key, forward_fn, capture_inputs=None, post_warmup_hook=None)"
        ),
        "BaseCudaGraphBackend.replay": "(self, shape_key, static_forward_batch, **kwargs)",
    },
    "sglang.srt.model_executor.model_runner": {
        "ModelRunner._get_attention_backend": "(self, init_new_workspace=False)",
    },
    "sglang.srt.runtime_context": {
        "get_context": "()",
        "get_exec": "()",
        "get_parallel": "()",
        "get_spec": "()",
    },
    "sglang.srt.distributed.parallel_state": {
        "GroupCoordinator.broadcast": "(self, input_, src=0)",
        "GroupCoordinator.broadcast_object": "(self, obj=None, src=0)",
    },
    "sglang.srt.speculative.spec_utils": {
        "renorm_draft_probs": "(next_token_logits, sampling_info, use_rejection_sampling)",
    },
    "sglang.srt.state_capturer.routed_experts": {
        "set_global_experts_capturer": "(capturer)",
    },
    "sglang.srt.layers.moe.topk": {
        "capture_routed_experts_if_allowed": "(topk_config, layer_id, topk_ids)",
    },
    "sglang.srt.utils.common": {
        "fast_topk": "(values, topk, dim)",
        "get_available_gpu_memory": (
            "(device, gpu_id, distributed=False, empty_cache=True, cpu_group=None)"
        ),
    },
    "sglang.srt.speculative.spec_info": {
        "SpeculativeAlgorithm.register": (
            "(cls, name, *, supports_overlap=False, validate_server_args=None, "
            "spec_class=sglang.srt.speculative.spec_registry.CustomSpecAlgo)"
        ),
        "SpeculativeAlgorithm.create_future_map": (
            "(self, device, req_to_token_pool, needs_cpu_seq_lens=True, "
            "needs_confidence_relay=False)"
        ),
    },
    "sglang.srt.speculative.spec_registry": {
        "CustomSpecAlgo.__init__": (
            "(self, name, factory, *, supports_overlap=False, validate_server_args=None)"
        ),
        "CustomSpecAlgo.handle_server_args": "(self, server_args)",
    },
    "sglang.srt.managers.scheduler": {
        "Scheduler.flush_cache": "(self, empty_cache=True)",
    },
}
