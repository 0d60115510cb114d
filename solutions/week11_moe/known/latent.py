# %% right_row_by_row
"""Different: one list of (numbers, bytes each) per case."""


def latent_bytes(hidden, heads, q_rank, kv_rank, nope, rope, value):
    def total(rows):
        return sum(numbers * each for numbers, each in rows)

    width = nope + rope
    always = [(hidden, 2), (q_rank, 2), (kv_rank, 2), (heads * value, 2), (heads, 4)]
    expanded = [(q_rank, 2), (kv_rank, 2), (1, 4), (1, 4), (heads * width, 2), (heads * width, 2), (heads * value, 2)]
    cache = total([(kv_rank, 2), (rope, 2)])
    return cache, total([(heads * width, 2), (heads * value, 2)]), total(always + expanded), total([*always, (rope, 2)])


# %% right_in_closed_form
"""Different: closed forms, the second total as a difference."""


def latent_bytes(hidden, heads, q_rank, kv_rank, nope, rope, value):
    kept = 2 * hidden + 4 * (q_rank + kv_rank) + 8 + heads * (4 * (nope + rope + value) + 4)
    dropped = 2 * (q_rank + kv_rank) + 8 + 2 * heads * (2 * (nope + rope) + value)
    return [2 * (kv_rank + rope), 2 * heads * (nope + rope + value), kept, kept - dropped + 2 * rope]


# %% rotary_key_per_head of="right_in_closed_form"
"""Wrong: caches a rotary key for each head, although all heads share one."""

# -    return [2 * (kv_rank + rope), 2 * heads * (nope + rope + value), kept, kept - dropped + 2 * rope]
# +    return [2 * (kv_rank + heads * rope), 2 * heads * (nope + rope + value), kept, kept - dropped + 2 * rope]

# %% cache_without_rotary_key of="right_in_closed_form"
"""Wrong: caches the latent alone; a rotary key cannot be computed from it."""

# -    return [2 * (kv_rank + rope), 2 * heads * (nope + rope + value), kept, kept - dropped + 2 * rope]
# +    return [2 * kv_rank, 2 * heads * (nope + rope + value), kept, kept - dropped + 2 * rope]

# %% caches_queries_too of="right_in_closed_form"
"""Wrong: caches the queries' latent, which no later token needs."""

# -    return [2 * (kv_rank + rope), 2 * heads * (nope + rope + value), kept, kept - dropped + 2 * rope]
# +    return [2 * (q_rank + kv_rank + rope), 2 * heads * (nope + rope + value), kept, kept - dropped + 2 * rope]

# %% values_as_wide_as_keys of="right_in_closed_form"
"""Wrong: takes the values to be as wide as the keys."""

# -    return [2 * (kv_rank + rope), 2 * heads * (nope + rope + value), kept, kept - dropped + 2 * rope]
# +    return [2 * (kv_rank + rope), 4 * heads * (nope + rope), kept, kept - dropped + 2 * rope]

# %% latents_once of="right_in_closed_form"
"""Wrong: forgets that a latent is kept before its norm and after it."""

# -    kept = 2 * hidden + 4 * (q_rank + kv_rank) + 8 + heads * (4 * (nope + rope + value) + 4)
# +    kept = 2 * hidden + 2 * (q_rank + kv_rank) + 8 + heads * (4 * (nope + rope + value) + 4)

# %% without_the_scales of="right_in_closed_form"
"""Wrong: forgets the norms' scales."""

# -    kept = 2 * hidden + 4 * (q_rank + kv_rank) + 8 + heads * (4 * (nope + rope + value) + 4)
# +    kept = 2 * hidden + 4 * (q_rank + kv_rank) + heads * (4 * (nope + rope + value) + 4)

# %% sums_in_bf16 of="right_in_closed_form"
"""Wrong: two bytes for a sum of exponentials."""

# -    kept = 2 * hidden + 4 * (q_rank + kv_rank) + 8 + heads * (4 * (nope + rope + value) + 4)
# +    kept = 2 * hidden + 4 * (q_rank + kv_rank) + 8 + heads * (4 * (nope + rope + value) + 2)

# %% rotary_key_lost of="right_in_closed_form"
"""Wrong: repeats the keys without the rotary part, which does not come from the latent."""

# -    return [2 * (kv_rank + rope), 2 * heads * (nope + rope + value), kept, kept - dropped + 2 * rope]
# +    return [2 * (kv_rank + rope), 2 * heads * (nope + rope + value), kept, kept - dropped]

# %% output_repeated of="right_in_closed_form"
"""Wrong: drops the output too, which only repeating attention itself would allow."""

# -    dropped = 2 * (q_rank + kv_rank) + 8 + 2 * heads * (2 * (nope + rope) + value)
# +    dropped = 2 * (q_rank + kv_rank) + 8 + 2 * heads * (2 * (nope + rope) + 2 * value)
