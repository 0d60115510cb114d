"""A figure of a kilometre.

sentence: -
"""

import matplotlib.pyplot as plt

plt.figure(figsize=(40_000, 40_000))
plt.show()
