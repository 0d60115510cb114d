"""`python -m shardlab.costs.validation`: both reports; `--fit`: the constants, fitted on all published runs."""

import sys

from shardlab.costs.validation import validate, validate_single_node
from shardlab.costs.validation.fitting import fit

if "--fit" in sys.argv:
    print(fit(validate.measured_runs()))
else:
    print(validate.report(), validate_single_node.report(validate_single_node.read_steps()), sep="\n\n")
