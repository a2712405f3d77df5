"""Files of this machine: what a path names, YAML and safetensors within bounds, and replacing a file in one step."""
