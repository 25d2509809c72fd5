"""archiver."""
