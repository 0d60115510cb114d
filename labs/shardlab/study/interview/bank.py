"""All questions, in the order of the weeks."""

from shardlab.study.interview.data_questions import DATA
from shardlab.study.interview.expert_questions import EXPERTS
from shardlab.study.interview.model_questions import MODEL
from shardlab.study.interview.run_questions import RUN
from shardlab.study.interview.schedule_questions import SCHEDULE

QUESTIONS = (*DATA, *MODEL, *SCHEDULE, *EXPERTS, *RUN)
