"""Between the course and Canvas or Moodle: submissions in, points out, names hidden."""
