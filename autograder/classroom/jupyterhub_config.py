"""JupyterHub for one class: students sign up, the instructor approves them, and each gets an account on the machine.

The instructor logs in here only to approve students, and works at the desk, a separate service: this machine has
neither the gradebook's address nor the keys of the grading cluster. Run `python -m jupyterhub -f THIS FILE` as root in
its container.
"""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import nativeauthenticator
from jupyterhub.handlers import BaseHandler
from jupyterhub.spawner import LocalProcessSpawner
from nativeauthenticator import NativeAuthenticator

from autograder.classroom import accounts
from autograder.lms import exchange

INSTRUCTOR = os.environ.get("INSTRUCTOR", "instructor")
COURSE = os.environ.get("COURSE", "sys602")  # the course's name in the exchange
HOMES = Path(os.environ.get("HOMES", "/home"))
STATE = Path(os.environ.get("HUB_STATE", "/srv/hub"))
STUDENTS_JUPYTER = os.environ.get("STUDENTS_JUPYTER", "/etc/sys602/jupyter")  # course/.jupyter, readable by everyone
FOR_ALL = ("PATH", "LANG", "NBGRADER_EXCHANGE")


class ClassAuthenticator(NativeAuthenticator):
    """Names with passwords; the instructor's account exists before anybody can sign up under that name."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.user_exists(INSTRUCTOR):
            return
        self.create_user(INSTRUCTOR, os.environ.get("INSTRUCTOR_PASSWORD", ""))
        if not self.user_exists(INSTRUCTOR):
            raise ValueError("INSTRUCTOR_PASSWORD needs at least 10 characters and must not be a common password")

    def validate_username(self, username):
        """Accept a name that can become an account and does not belong to the system."""
        is_ours = username == INSTRUCTOR or not accounts.has_account(username) or (HOMES / username).is_dir()
        return bool(accounts.NAME.fullmatch(username)) and is_ours and super().validate_username(username)


def _is_instructor(handler: BaseHandler) -> bool:
    return handler.current_user is not None and handler.current_user.name == INSTRUCTOR


def prepare(spawner: LocalProcessSpawner) -> None:
    """Before a server starts, create the student's account and copy the pages to `work/` in their home."""
    if spawner.user.name == INSTRUCTOR:
        raise ValueError("No server for the instructor: work at the desk (port 8001); approve at /hub/authorize")
    student = accounts.account(spawner.user.name, HOMES)
    spawner.notebook_dir = f"{student.pw_dir}/work"
    spawner.environment = {"JUPYTER_CONFIG_PATH": STUDENTS_JUPYTER}
    begin = [Path(sys.executable).with_name("shardlab"), "study", "--folder", spawner.notebook_dir, "begin"]
    theirs = {"HOME": student.pw_dir, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    subprocess.run(begin, user=student.pw_uid, group=student.pw_gid, extra_groups=[], env=theirs, cwd="/", check=True)


exchange.make(Path(os.environ["NBGRADER_EXCHANGE"]), COURSE, pwd.getpwnam(INSTRUCTOR).pw_uid)

c = get_config()  # noqa: F821 - JupyterHub defines it
c.JupyterHub.bind_url = os.environ.get("HUB_URL", "http://0.0.0.0:8000")
c.JupyterHub.db_url = f"sqlite:///{STATE}/jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = str(STATE / "cookie_secret")
c.JupyterHub.authenticator_class = ClassAuthenticator
c.JupyterHub.template_paths = [str(Path(nativeauthenticator.__file__).parent / "templates")]
c.Authenticator.admin_users = {INSTRUCTOR}
c.Authenticator.allow_all = True  # everyone whom the instructor approved at /hub/authorize
c.NativeAuthenticator.minimum_password_length = 10
c.NativeAuthenticator.check_common_password = True
c.NativeAuthenticator.allowed_failed_logins = 5
c.NativeAuthenticator.seconds_before_next_try = 600
c.JupyterHub.spawner_class = LocalProcessSpawner
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.Spawner.env_keep = [*FOR_ALL]
c.Spawner.default_url = "/lab"
c.JupyterHub.default_url = lambda handler: f"/hub/{'authorize' if _is_instructor(handler) else 'home'}"
c.Spawner.pre_spawn_hook = prepare
c.Spawner.start_timeout = 120
