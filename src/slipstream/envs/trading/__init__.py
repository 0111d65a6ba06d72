"""Worlds of money: a portfolio of stocks at prices that were."""
