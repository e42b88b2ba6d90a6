"""How busy this process's GPU is, according to NVIDIA's driver."""

from __future__ import annotations

import ctypes
import functools
import sys


class _Rates(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


@functools.cache
def _driver() -> ctypes.CDLL | None:
    try:
        driver = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return driver if driver.nvmlInit_v2() == 0 else None


def gpu_share() -> float | None:
    """Returns the share of the last moment in which torch's current GPU computed.

    The driver's interval is between a sixth of a second and a second. None if torch has not used a
    GPU in this process, or the driver does not report it.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    uuid = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    driver = _driver()
    if driver is None or uuid is None:
        return None
    gpu, rates = ctypes.c_void_p(), _Rates()
    if driver.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode(), ctypes.byref(gpu)) != 0:
        return None
    if driver.nvmlDeviceGetUtilizationRates(gpu, ctypes.byref(rates)) != 0:
        return None
    return float(rates.gpu) / 100
