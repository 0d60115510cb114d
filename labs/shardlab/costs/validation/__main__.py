"""`python -m shardlab.costs.validation`: both reports; `--fit`: the constants, fitted on all published runs.

`--residuals` writes data/held_out_residuals.csv, from which prediction intervals are made, after a change of the model.
"""

import sys

from shardlab.costs.validation import validate, validate_single_node
from shardlab.costs.validation.fitting import fit
from shardlab.costs.validation.residuals import write_residuals

if "--fit" in sys.argv:
    print(fit(validate.measured_runs()))
elif "--residuals" in sys.argv:
    runs = validate.measured_runs()
    write_residuals(runs, validate.held_out(runs, validate.fitted_model))
else:
    print(validate.report(), validate_single_node.report(validate_single_node.read_steps()), sep="\n\n")
