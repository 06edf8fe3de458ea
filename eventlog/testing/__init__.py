"""Crash-testing a log and what is built on it: a disk that forgets, and all that a crash may leave of it."""

from .forgetful import CrashPoint, ForgetfulFileSystem

__all__ = ["CrashPoint", "ForgetfulFileSystem"]
