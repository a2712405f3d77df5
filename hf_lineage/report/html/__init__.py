"""Html: a report as one page that people open."""
