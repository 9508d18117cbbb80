"""The Solr-style filter language of `fq`, `boost_fq` and facets, and nothing else."""
