"""hf-lineage"""
