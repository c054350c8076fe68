"""Duals to solve, and their minimum by SciPy, written independently."""

import numpy as np
from scipy.optimize import minimize

KINDS = ("gate", "converged", "sparse", "thousandth", "million", "one context", "equal")


def radial_basis(contexts):
    """The 51 value features of the gate, in NumPy."""
    axes = [np.linspace(-5, 5, 12)[1:-1], np.linspace(0.1, 0.5, 7)[1:-1]]
    centres = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    bumps = np.exp(-(((contexts[:, None] - centres) ** 2) * np.array([0.6, 150.0])).sum(-1))
    return np.concatenate([bumps / bumps.sum(1, keepdims=True), np.ones((len(contexts), 1))], axis=1)


def random_problem(random, kind, count=400):
    """Returns rewards, features and log mu / p of gate-like contexts."""
    std = np.array([7, 0.003]) ** 0.5 * random.uniform(0.1, 1.2)
    mean = np.array([random.uniform(-4, 4), random.uniform(0.15, 0.4)])
    contexts = np.clip(mean + std * random.normal(size=(count, 2)), [-5, 0.1], [5, 0.5])
    if kind == "one context":
        contexts[:] = contexts[0]
    rewards = np.clip(60 + 20 * np.sin(contexts[:, 0]) + 50 * random.normal(size=count), 0, 110)
    if kind == "sparse":
        rewards = 1.0 * (random.uniform(size=count) < 0.05 + 0.1 * (contexts[:, 0] > 0))
    if kind == "converged":
        rewards = 100 + 9 * np.exp(-np.abs(random.normal(size=count)))
    if kind == "equal":
        rewards[:] = 3.7
    rewards *= {"thousandth": 1e-5, "million": 1e4}.get(kind, 1.0)
    target_mean, target_std = np.array([-4, 0.2]), np.array([0.1, 0.001]) ** 0.5
    log_ratios = (((contexts - mean) / std) ** 2 - ((contexts - target_mean) / target_std) ** 2).sum(1) / 2
    return rewards, radial_basis(contexts), log_ratios + np.log(std / target_std).sum()


def tempered(exponents, temperature):
    """Returns the weights and log mean exp."""
    top = exponents.max()
    factors = np.exp((exponents - top) / temperature)
    return factors / factors.sum(), np.log(factors.mean()) + top / temperature


def sprl_dual(x, rewards, features, log_ratios, alpha, max_kl, ridge):
    """Value and gradient at x = (eta, eta~, chi)."""
    eta, eta_tilde, chi = x[0], x[1], x[2:]
    value = features @ chi
    advantage, beta = rewards - value, value + alpha * log_ratios
    w, log_mean = tempered(advantage, eta)
    q, log_mean_tilde = tempered(beta, alpha + eta_tilde)
    total = (eta + eta_tilde) * max_kl + eta * log_mean + (alpha + eta_tilde) * log_mean_tilde + ridge * chi @ chi
    slopes = [max_kl + log_mean - w @ advantage / eta, max_kl + log_mean_tilde - q @ beta / (alpha + eta_tilde)]
    return total, np.concatenate([slopes, features.T @ (q - w) + 2 * ridge * chi])


def creps_dual(x, rewards, features, mean_features, max_kl, ridge):
    """Value and gradient at x = (eta, chi)."""
    eta, chi = x[0], x[1:]
    advantage = rewards - features @ chi
    w, log_mean = tempered(advantage, eta)
    total = eta * max_kl + chi @ mean_features + eta * log_mean + ridge * chi @ chi
    slope = max_kl + log_mean - w @ advantage / eta
    return total, np.concatenate([[slope], mean_features - features.T @ w + 2 * ridge * chi])


def minimise_by_scipy(dual, start, least, curvature):
    """Minimises with L-BFGS-B at tight tolerances, from a start that is far away.

    SciPy's method needs well-scaled unknowns to get to 1e-6, so it gets chi in coordinates in which ``curvature``, a Hessian
    near the minimum, is the identity, and the temperatures ``start`` in units of themselves. The minimum is the same.
    """
    temperatures = len(start)
    factor = np.linalg.cholesky(curvature)

    def to_x(z):
        return np.concatenate([start * z[:temperatures], np.linalg.solve(factor.T, z[temperatures:])])

    def scaled(z):
        value, gradient = dual(to_x(z))
        down = np.linalg.solve(factor, gradient[temperatures:])
        return value, np.concatenate([start * gradient[:temperatures], down])

    z = np.concatenate([np.full(temperatures, 5.0), np.zeros(len(factor))])
    bounds = [(least / one, None) for one in start] + [(None, None)] * len(factor)
    options = {"maxiter": 3000, "maxfun": 6000, "ftol": 0.0, "gtol": 1e-13, "maxcor": 60, "maxls": 50}
    for _ in range(6):  # restarts clear its memory
        z = minimize(scaled, z, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        if np.abs(scaled(z)[1][temperatures:]).max() < 1e-9 * start.min() ** 0.5:
            break
    return to_x(z), dual(to_x(z))[0]
