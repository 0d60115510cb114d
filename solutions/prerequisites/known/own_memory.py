# %% right_as_text
"""Different: numbers as text."""

reading_answers = {"returned by rank 2": "102", "notebook afterwards": "0", "returned by rank 2, second call": "102"}

# %% one_memory
"""Wrong: as if the second call went on with the first one's counter."""

reading_answers = {"returned by rank 2": 102, "notebook afterwards": 0, "returned by rank 2, second call": 204}

# %% the_notebook_sees_it
"""Wrong: as if rank 0 were the notebook."""

reading_answers = {"returned by rank 2": 102, "notebook afterwards": 100, "returned by rank 2, second call": 102}

# %% ranks_add_up
"""Wrong: as if the four ranks changed one counter."""

reading_answers = {"returned by rank 2": 406, "notebook afterwards": 0, "returned by rank 2, second call": 406}

# %% right_page from="page"
"""Different: the page."""

# %% half_answered
"""Wrong: the last number is missing."""

reading_answers = {"returned by rank 2": 102, "notebook afterwards": 0, "returned by rank 2, second call": None}
