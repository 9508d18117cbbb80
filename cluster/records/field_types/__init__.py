"""Types that the fields of records share: texts, numbers, times, units and attributes."""
