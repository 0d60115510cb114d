"""`python -m shardlab.costs.validation`: print the report (takes a few minutes), or do what an option says."""

import argparse

from shardlab.costs.validation import validate
from shardlab.costs.validation.fitting import fit, write_residuals
from shardlab.terminal import fit_output

parser = argparse.ArgumentParser(prog="python -m shardlab.costs.validation", description=__doc__)
instead = parser.add_mutually_exclusive_group()
instead.add_argument("--fit", action="store_true", help="print the constants fitted on all published runs")
instead.add_argument(
    "--residuals",
    action="store_true",
    help="write data/held_out_residuals.json, the input of prediction intervals; needed after changing the model",
)
chosen = parser.parse_args()
fit_output()

if chosen.fit:
    print(fit(validate.measured_runs()))
elif chosen.residuals:
    runs = validate.measured_runs()
    write_residuals(runs, validate.held_out(runs, validate.fitted_model))
else:
    print(validate.report())
