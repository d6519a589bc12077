"""What is made from result files alone: tables, figures, sentences and pages."""
