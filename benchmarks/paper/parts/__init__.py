"""What the experiments share: models, training, edits of weights, rival methods, metrics, figures, results."""
