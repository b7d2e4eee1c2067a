"""The screens beside the main one."""
