"""The columns of a row, as a PyArrow schema per experiment. Missing is null, never NaN or 0."""

import pyarrow as pa

NORM_ROLES = ("pre_attention_norm", "post_attention_norm", "pre_mlp_norm", "post_mlp_norm", "final_norm")

COMMON = pa.schema(
    [
        ("model", pa.string()),
        ("experiment", pa.string()),
        ("task", pa.string()),  # loss | pairs
        ("dataset", pa.string()),
        ("phenomenon", pa.string()),
        ("cluster", pa.string()),
        ("item", pa.string()),
        ("arm", pa.string()),  # clean | magnitude | angular
        ("sign", pa.int8()),  # +1/-1 for antithetic members, else null
        ("delta", pa.float64()),  # as asked, in units of delta_mode; 0 for clean and control rows
        ("delta_mode", pa.string()),
        ("layers", pa.string()),  # resolved and inclusive: "8-15", "4,6"
        ("seed", pa.int64()),  # null for clean and control rows
        ("policy_id", pa.string()),
        ("positions", pa.string()),
        ("n_tokens", pa.int32()),  # scored tokens of a text
        ("n_tokens_good", pa.int32()),
        ("n_tokens_bad", pa.int32()),
        ("nll", pa.float64()),  # sum over scored tokens, nats
        ("kl", pa.float64()),  # KL(clean || perturbed), sum over scored tokens, nats
        ("logp_good", pa.float64()),  # nats
        ("logp_bad", pa.float64()),
        ("eligible", pa.int32()),  # tokens that `positions` selects
        ("infeasible", pa.int32()),  # eligible tokens left clean (or perturbed although infeasible, under `apply`)
        ("moved", pa.int32()),  # tokens that took part at the first perturbed layer
        ("saturated", pa.int32()),  # sequences times layers in which the scale of a plane hit its bound
        ("realised_delta_mean", pa.float64()),  # at the first perturbed layer, mean over tokens that took part
        ("realised_delta_max_error", pa.float64()),  # largest |realised / asked - 1| over tokens and layers
        ("norm_change_max", pa.float64()),  # largest | |h'| / |h| - 1 | over tokens and layers
    ]
)

REPAIR = pa.schema(
    [
        *COMMON,
        ("repair", pa.string()),  # null: the perturbed run without a repair
        ("repair_layers", pa.string()),  # resolved, as `layers`
    ]
)

PROPAGATION = pa.schema(
    [
        *(field for field in COMMON if field.name not in ("nll", "kl", "logp_good", "logp_bad")),
        ("block", pa.int32()),  # whose raw output is compared with the clean run's
        ("distance", pa.float64()),  # means over real tokens, an added BOS left out
        ("relative", pa.float64()),  # mean distance / mean clean norm
        ("radial", pa.float64()),  # |h'| - |h|
        ("angular", pa.float64()),  # 2 sqrt(|h| |h'|) sin(angle / 2)
        ("cosine", pa.float64()),
        ("attention_entropy", pa.float64()),  # change, nats, mean over heads and queries
        ("attention_js", pa.float64()),  # Jensen-Shannon divergence to the clean pattern, nats
        ("norm_statistic", pa.float64()),  # relative change of what the block's first norm divides by
        *((name, pa.float64()) for name in NORM_ROLES),  # the same for each norm by role
    ]
)

CURVATURE = pa.schema(
    [
        *(field for field in COMMON if field.name not in ("kl", "logp_good", "logp_bad")),
        ("block", pa.int32()),  # perturbed alone
        ("radial", pa.float64()),  # xi'H xi along the states, one probe (seed), nats per delta^2, summed over tokens
        ("tangential", pa.float64()),  # the same perpendicular to them
        ("gradient", pa.float64()),  # sum of w^2 u'g/n, the sphere's part of the angular damage
    ]
)

PROBING = pa.schema(
    [
        *COMMON,  # rows of the single-block sweep have these alone; rows of probes have no task and no arm
        ("block", pa.int32()),  # -1 for the embeddings
        ("representation", pa.string()),
        ("target", pa.string()),  # upos | depth | arc_length
        ("metric", pa.string()),  # accuracy | selectivity | r2 | spearman | gain | gain_upos
        ("pooling", pa.string()),  # last | mean
        ("after_arm", pa.string()),  # null: clean states
        ("n_words", pa.int32()),  # words of the sentence that were read
        ("score", pa.float64()),  # sums over these words: the metric is sum(score) / sum(weight)
        ("weight", pa.float64()),
    ]
)

SCHEMAS: dict[str, pa.Schema] = {
    "sweep": COMMON,
    "repair": REPAIR,
    "propagation": PROPAGATION,
    "audit": REPAIR,
    "curvature": CURVATURE,
    "probing": PROBING,
}
