"""The columns of a row, as a PyArrow schema per experiment. Missing is null, never NaN or 0."""

import pyarrow as pa

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

SCHEMAS: dict[str, pa.Schema] = {"sweep": COMMON}
