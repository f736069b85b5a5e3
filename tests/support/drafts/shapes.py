"""Sizes of the tiny target and its drafters."""

VOCAB = 32
MASK, QUOTE, FIRST_LETTER = 0, 1, 2  # the mask never occurs in text
WIDTH, HEADS, KV_HEADS, HEAD, FFN = 64, 2, 1, 32, 128
EPS, ROPE_BASE = 1e-6, 10000.0
QWEN3_BLOCKS = 4
QWEN35_BLOCKS, INTERVAL = 2, 2  # one delta net, one attention block
CONV, STATE = 4, HEAD
TAPS = (1, 2, 3)  # blocks of the target whose inputs the drafters see
DFLASH_BLOCKS, MARKOV_RANK = 2, 16
DRAFTED = 5  # tokens that each drafter proposes
MEDUSA_HEADS = DRAFTED
