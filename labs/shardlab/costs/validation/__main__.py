"""`python -m shardlab.costs.validation`: the report; `--fit`: the constants, fitted on all published runs."""

import sys

from shardlab.costs.validation.fitting import fit
from shardlab.costs.validation.validate import measured_runs, report

print(fit(measured_runs()) if "--fit" in sys.argv else report())
