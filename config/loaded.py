"""Imported for its effect: Django and the models are loaded. A database or a store is not needed for that."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()
