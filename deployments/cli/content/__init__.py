"""Commands of what apps hold: products, rules, quarantine, exports, recommendations, erasure of users."""
