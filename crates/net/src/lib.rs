//! Socket system calls: segmentation offload, batched receive, shared ports.
