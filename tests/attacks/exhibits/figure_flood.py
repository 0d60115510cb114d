"""Opens a thousand figures.

sentence: Only the first 6 pictures
"""

import matplotlib.pyplot as plt

plt.rcParams["figure.max_open_warning"] = 0
for number in range(1000):
    plt.figure(figsize=(1, 1))
