"""The laboratory's encoders in other libraries, one library per file.

============  ===================================================================
``cornac``    a recommender for its experiments
``timm``      its networks as encoders of images
``hub``       encoders saved and loaded as the Hugging Face Hub expects them
============  ===================================================================
"""
