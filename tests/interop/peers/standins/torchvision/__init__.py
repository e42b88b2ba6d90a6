"""Stands in for torchvision, of which no build for the CPU can be had beside this torch.

mosaicml-streaming imports two names of it on the way to its reader and writer, and litdata asks
whether it is there. Our tests call none of them: images stay the bytes they are.
"""
