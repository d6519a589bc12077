"""The paper's numerical experiments: a generative process of scores, and estimators."""
