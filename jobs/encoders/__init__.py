"""Sentence encoders that an operator imports: `kiosk models import PATH`.

safetensors   the tensors of a file, verified by their content, without a library
onnx_graph    tensors to an ONNX graph; the only module that needs the extra `meaning`
model_import  the graph, quantised, into the data directory
cli           the commands
"""
