"""Tables, figures, sentences and pages, made only from result files."""
