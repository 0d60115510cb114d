"""Shows pictures forever.

sentence: did not end by itself
timeout: 4
"""

import matplotlib.pyplot as plt

while True:
    plt.figure(figsize=(1, 1))
    plt.show()
