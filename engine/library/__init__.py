"""The models on this machine: found, described, paired, verified, brought in, taken out."""
