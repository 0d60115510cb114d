"""Different: gathered and scattered parts one by one."""


def ep_or_tp():
    gpus, tokens, k, h, width = 8, 4096, 6, 2048, 1408
    row = 2 * h
    dispatch = tokens * k * row * (gpus - 1) // gpus
    gathered = (gpus - 1) * tokens * row
    least = 1
    while 2 * tokens * least * row * (gpus - 1) / gpus <= 2 * gathered:
        least += 1
    return [2 * dispatch, 2 * gathered, least, tokens * gpus * k // 64, width // gpus]
