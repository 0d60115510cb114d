"""All questions, in the order of the weeks."""

from shardlab.costs.interview.data_questions import DATA
from shardlab.costs.interview.expert_questions import EXPERTS
from shardlab.costs.interview.model_questions import MODEL
from shardlab.costs.interview.run_questions import RUN
from shardlab.costs.interview.schedule_questions import SCHEDULE

QUESTIONS = (*DATA, *MODEL, *SCHEDULE, *EXPERTS, *RUN)
