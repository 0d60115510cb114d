"""Replaces our backend by one whose figures are markup.

sentence: -
"""

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

plt.plot([1, 2])
plt.savefig("/tmp/plot.svg")
print(open("/tmp/plot.svg").read())
plt.show()
