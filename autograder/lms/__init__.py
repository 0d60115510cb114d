"""Exchange data with Canvas or Moodle: submissions in, points out, names hidden."""
