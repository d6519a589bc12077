"""The paper's numerical experiments: a process that generates scores, and estimators of means."""
