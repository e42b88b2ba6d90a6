"""Package of the one function below."""
