"""nbgrader's settings for every account of the class: where the exchange is, and the course's name.

This file is installed in /etc/jupyter. The instructor's own file, in the course's folder, has the other settings.
"""

import os

c = get_config()  # noqa: F821 - nbgrader defines it
c.CourseDirectory.course_id = "sys602"
c.Exchange.root = os.environ.get("NBGRADER_EXCHANGE", "/srv/exchange")
c.Exchange.path_includes_course = False
