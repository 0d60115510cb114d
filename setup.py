"""What pyproject.toml cannot say: the students' notebooks travel inside the package, as `shardlab/pages`.

An installed course is then whole without this folder's layout: `shardlab study begin` lays its pages out anywhere.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages("labs"), *find_packages(".", include=["autograder*"]), "shardlab.pages"],
    package_dir={"shardlab": "labs/shardlab", "autograder": "autograder", "shardlab.pages": "course"},
)
